"""Kubernetes JSON and YAML to the model, for the API server and for files alike.

`wire` says what is read of each kind, the other modules turn that into the model, `kinds` names the kinds and where
they are served, `lists` reads pages and whole files. An object that cannot be read becomes a `Fault`, never the end
of the run.
"""
