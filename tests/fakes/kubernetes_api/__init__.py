"""A Kubernetes API that listens on loopback: the parts behind `tests.fakes.fake_kubernetes`.

| module | what it does |
|---|---|
| `refusals` | error answers, as `Status` objects |
| `selectors` | label and field selectors |
| `store`, `quota` | the objects: create, list, patch, delete with owners and finalizers; what a quota refuses |
| `podrun`, `script` | what becomes of a pod, step by step |
| `controllers`, `rows` | what controllers make of JobSets; nodes and events |
| `asked`, `answers`, `logs`, `server` | requests, what is answered to them, logs; connections and faults on demand |
"""
