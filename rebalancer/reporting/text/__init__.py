"""The documents as text: tables and sentences for a terminal, JUnit XML for CI systems."""
