"""Several harnesses that run one trial together, one on each node: node 0 measures and stores the document, the others follow it.

    topology  nodes, ranks and the rendezvous, by the environment
    channel   messages between two harnesses

`training.job` says what the nodes do between joining and the end. A training worker imports
`topology`, so that file and this one import the standard library alone.
"""
