"""Kubernetes JSON and YAML to the model, for the API server and for files alike.

`wire` has the fields that are read for each kind, and other modules convert them to the model. `kinds` lists the kinds
and their API paths, `lists` reads pages and whole files. An unreadable object becomes a `Fault`; it never ends the run.
"""
