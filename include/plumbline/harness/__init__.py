"""What runs inside the pod (or the local process): it measures one trial and writes one result document.

It knows declarations and results, and nothing of Airflow, the archive or any cluster.
"""
