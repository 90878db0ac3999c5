"""The edge to people: what waits, why, since when; what runs where; and what would happen if.

Lives here: a JSON API over HTTP, its OpenAPI description, who may ask it, and the page that shows it in a browser.
Never here: a decision, or a write to the API server; what changes something goes through `operator_api.OperatorService`,
which the service provides. Only the service may call this room.

    schemas           the JSON, as frozen structs
    accounting        the JSON of shares and of gangs that ended
    move_schemas      and that of moves that make room
    gang_views        the engine's memory → gangs; pure
    gang_detail       parts of what is told of one gang in full; pure
    inactive_gangs    gangs that are over or suspended
    label_selector    which gangs have the labels that are asked for; pure
    node_views        the engine's picture → nodes and the cluster; pure
    share_views       shares → what each namespace uses and may; pure
    history_views     gangs that ended; pure
    move_views        moves that make room for a gang; pure
    authorization     who asks, and what it may see and do
    operator_api      what a person may ask to be done, and why there is no answer
    trials            pods that are tried out, one question to the planner at a time
    routes            the table of all routes, which server and description follow
    endpoints         what each route answers
    openapi           the description, made from the table
    status_app        routes, bounds, headers, one line and one counter a call
    page/             the page: HTML, CSS and JavaScript as they are shipped
"""
