"""The edge to kube-scheduler: three verbs over HTTP.

Lives here: the JSON of the verbs, and the server that speaks it. Never here: a comparison of nodes, or memory
of a pod; both are behind `verb_handlers.Verbs`, which the engine provides. Only the service may call this room.

    wire            bytes ⇄ calls and answers; pure
    verb_handlers   decode → engine → encode
    app             routes, one canonical line and one counter a call
    byte_cache      a cache bounded in bytes, for lists and refusals that repeat
"""
