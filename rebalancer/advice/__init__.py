"""Advice for owners: spread constraints that enforce a limit, what they guarantee, and whether they can deadlock."""
