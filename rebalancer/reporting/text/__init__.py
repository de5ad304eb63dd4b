"""The documents as text: tables and sentences for a terminal."""
