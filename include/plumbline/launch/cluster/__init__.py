"""Trials as pods on a GPU cluster: one pod, or a gang of pods for several nodes.

| module | what it does |
|---|---|
| `names` | the names and labels of everything that a launch creates |
| `manifest`, `placement`, `credentials`, `gang`, `jobset`, `trainjob` | pure: trial → manifests, from the templates in `k8s/workloads` |
| `observation`, `pod_timeline`, `pod_facts` | pure: what the API showed → the pods' records |
| `classify`, `pod_verdict` | pure: what the API showed and the document says → failure class, and a sentence |
| `trigger`, `async_api` | waits for a launch's pods inside Airflow's triggerer, through outages |
| `watch`, `outage`, `log_reader` | pure: what the trigger concludes from looks, failures and logs |
| `pod_state`, `payload` | pure: where a pod is in its life; what was seen, as a small row |
| `pod_operator`, `gang_operator`, `task` | the Airflow side: create, wait in the triggerer, come back, be killed |
| `attempt`, `lifecycle`, `look`, `api` | without Airflow: announce, adopt, look, delete, record |
| `sweep` | deletes what outlived every deadline |
| `doctor`, `access` | checks a cluster from here; makes the kubeconfig for it |

Nothing is imported here: DAG files import this package on every parse.
"""
