"""The tables of the report: figures that others published beside Gangwright's, on the same inputs.

Lives here: one module for each table, the type of a table, and the report that shows them.
Never here: a simulation or a policy. A table's module calls the bench that measures it.

    table      what a table holds, and how much of it a profile measures
    known      the names of the tables, in the order of the report
    measuring  the tables one by one, those that exist already left out
    records    a measured table as a file
    ranges     what each figure must be, from `ranges.toml`
    document   tables as Markdown
    pictures   charts as files
"""
