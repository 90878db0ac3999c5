"""The edge to people: what waits, why, since when; what runs where; and what would happen if.

Lives here: a JSON API over HTTP, its OpenAPI description, who may ask it, and the page that shows it in a browser.
Never here: a decision, or a write to the API server; what changes something goes through `desk.Desk`, which the
service provides. Only the service may call this room.

    shapes     the JSON, as frozen structs
    views      the engine's memory → shapes of gangs; pure
    terrain    the engine's picture → shapes of nodes and of the cluster; pure
    sight      whose names somebody may read
    subjects   who asks: a user, and what a client certificate says of him
    reviews    the API server's word on who somebody is and what he may do, remembered for a while
    desk       what a person may ask to be done
    trial      pods as Kubernetes JSON → gangs that are tried out
    routes     the table of all routes, which server and description follow
    openapi    the description, made from the table
    app        routes, bounds, headers, one line and one counter a call
    page/      the page: HTML, CSS and JavaScript as they are shipped
"""
