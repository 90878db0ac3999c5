"""The edge to users: pending gangs with their reasons, running gangs with their nodes, and dry runs.

Lives here: a JSON API over HTTP, its OpenAPI description, its access control, and the page that shows it in a browser.
Never here: a decision, or a write to the API server. Changes go through `operator_api.OperatorService`, which the
service provides. Only the service may import this package.

    schemas           the JSON, as frozen structs
    accounting        the JSON of shares and of gangs that ended
    move_schemas      the JSON of moves that free capacity
    gang_views        the engine's state → gangs; pure
    gang_detail       parts of the full view of one gang; pure
    inactive_gangs    gangs that are over or suspended
    label_selector    the gangs that a label selector chooses; pure
    node_views        the engine's snapshot → nodes and the cluster; pure
    share_views       shares → what each namespace uses and may use; pure
    history_views     gangs that ended; pure
    move_views        moves that free capacity for a gang; pure
    authorization     the caller, and what it may see and do
    operator_api      actions of users, and errors
    trials            dry runs of pods, one question to the planner at a time
    routes            the table of all routes, for the server and the description
    endpoints         the answer of each route
    openapi           the description, generated from the table
    status_app        routes, bounds, headers, one line and one counter per request
    page/             the page: HTML, CSS and JavaScript as they are shipped
"""
