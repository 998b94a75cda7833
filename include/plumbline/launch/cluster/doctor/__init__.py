"""Looks at a provider's cluster from Airflow's side, as a launch would use it; each finding is one line with its remedy.

| module | what it does |
|---|---|
| `line` | one finding |
| `cluster` | asks the API |
| `permissions`, `credentials`, `room` | pure: what the API says → findings about rights, tokens, nodes and quota |
| `probe_pod` | a small pod on the trial's nodes: image, secrets, store |
| `typical` | the trials that are to fit |
| `examine` | the order of it all |
"""
