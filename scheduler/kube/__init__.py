"""The edge to the API server: the only package that imports `kubernetes`.

Lives here: `credentials` (the API server's address and the credentials), `kubeconfig` (a user's kubeconfig), `client`
(one session), `http_connection` (one or two requests of a command), `api_errors` (errors of the API server), `changes`
(typed changes from a watch), `retry_backoff` (when to retry), `watch` (the reflector), `lease_record` (a Lease as
JSON), `lease_follower` (whether this replica's kube-scheduler leads), `leader_election` (the elastic master's Lease),
`actions` (effects → calls). Never here: a decision about pods or nodes. The service, the elastic master and the command
line may import it. Incoming objects become values of a type that the caller names. Outgoing bytes are encoded by the
caller.
"""
