"""The tables of the report: figures that others published beside ours, on the same inputs.

Lives here: one module for each table, the type of a table, and the document that shows them.
Never here: a simulation or a policy. A table's module calls the bench that measures it.

    table     what a table holds, and how much of it a profile measures
    document  tables as Markdown and as pictures
"""
