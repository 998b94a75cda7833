"""Trials as pods on a GPU cluster: one pod, or a gang of pods for several nodes.

| module | what it does |
|---|---|
| `names` | the names and labels of everything that a launch creates |
| `manifest`, `placement`, `credentials`, `gang`, `jobset`, `trainjob` | pure: trial → manifests, from the templates in `k8s/workloads` |
| `observation`, `pod_timeline`, `pod_facts` | pure: what the API showed → the pods' records |
| `classify`, `pod_verdict` | pure: what the API showed and the document says → failure class, and a sentence |
| `watch`, `trigger` | waits for a launch's pods inside Airflow's triggerer, through outages |
| `pod_operator`, `gang_operator`, `attempt`, `api` | create, adopt, observe, record, delete |
| `sweep` | deletes what outlived every deadline |
| `doctor`, `access` | checks a cluster from here; makes the kubeconfig for it |

Nothing is imported here: DAG files import this package on every parse.
"""
