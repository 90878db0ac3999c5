"""`make demo`: what Gangwright does, shown in a terminal on the real control plane in a few minutes.

    stage        the plane, the installation on it, one client, the claims: what every act stands on
    cast         gangs as pods, and the learners in them
    record       an independent watch: who was bound when, and was every plan written before its first bind
    preview      before the rest is built: the engine alone
    screen       cells and racks
    palette      marks and colors of gangs
    claims       what the demo says is true, each one checked; one that fails makes the demo fail
    shell        a person's: the command line, asked of the plane
    asking       what a person asks there, and what became of the answers
    training     what elastic jobs say of themselves: status, steps
    slots        slots over time
    two_jobs     what happens in the act `elastic`, and what is seen of it meanwhile
    deadlock, shapes, room, burst, elastic    the acts; `room` is acts 3 to 5, one story

Nothing here but `preview` imports `scheduler`: what is shown is read from the API server, from /metrics, from what
workers print and from the command line, as any user could.
"""
