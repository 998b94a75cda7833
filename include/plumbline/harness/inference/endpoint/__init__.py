"""A model that somebody else serves: how it is asked over HTTP or gRPC, what its answers mean, and what its failures are called.

| module | what it does |
|---|---|
| `requests` | whole HTTP requests as bytes, made before the load starts |
| `sse` | events out of a stream of bytes, however it was cut |
| `answers` | what a response means for a request's log: OpenAI's completions, KServe's generate and infer |
| `transports` | which of these a target needs |
| `http1` | HTTP/1.1 connections that are kept, one request at a time each |
| `external` | the endpoint of a trial: what the trial's flow needs of it |
| `talk` | plain connections, for what is not the load |
| `failures` | the failure class of a trial in which nothing succeeded |
"""
