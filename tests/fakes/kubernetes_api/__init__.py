"""A Kubernetes API that listens on loopback: the parts behind `tests.fakes.fake_kubernetes`.

| module | what it does |
|---|---|
| `refusals` | error answers, as `Status` objects |
| `selectors` | label and field selectors |
| `store` | the objects: create, list, patch, delete with owners and finalizers, quota |
| `podlife` | what becomes of a pod, step by step, from a script |
| `controllers` | what JobSet and TrainJob controllers make of their objects |
| `server` | HTTP: routing, tokens, faults on demand, logs |
"""
