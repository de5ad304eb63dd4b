"""The controller's own loop on the simulated cluster: what `simulate` and `demo` show.

`controller` is one process of it, `changes` are what an operator or an outage does, `play` runs both until nothing is
left to do and records what happened.
"""
