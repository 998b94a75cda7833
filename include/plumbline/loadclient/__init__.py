"""The load client: sends a phase's load as its schedule says, and writes down what happened to every request.

Open loop: a request is sent when the schedule says so, however many are in flight, and its latency counts from that moment. A server that
falls behind thus shows its queue, and a client that falls behind shows as dispatch delay. Closed loops and conversations follow the
answers that they wait for; only they do.
"""
