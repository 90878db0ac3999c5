"""The edge to the API server: the only room that imports `kubernetes`.

Lives here: `credentials` (where the API server is and who we are) and `kubeconfig` (what a person's says), `client` (one
session), `http_connection` (one or two questions of a command), `api_errors` (refusals in our words), `changes` (what a
watch tells, typed), `retry_backoff` (when to ask again), `watch` (the reflector), `lease_record` (a Lease as JSON),
`lease_follower` (whether the kube-scheduler beside us leads), `leader_election` (a Lease of our own), `actions` (effects
→ calls). Never here: a decision about pods or nodes. Who may call: the service,
the elastic master and the command line. What comes in leaves as values of the type that the caller names; what goes out
is bytes that the caller has encoded.
"""
