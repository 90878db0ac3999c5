"""Whether Gangwright's memory is bounded: gangs come and go by the thousand, and what stays is counted.

Lives here: two measurements, each with a warm-up that fills what is kept within a bound. Never here: a limit that
hides growth; what grew is named by its path.

    python -m bench.soak engine --gangs 100000
        the engine and its ledger alone, on a clock of its own: VmRSS by tenths, and every container that grew
    python -m bench.soak plane --gangs 5000
        `gangwright serve` beside a real kube-scheduler: VmRSS by time, events by gang, failed writes, how it stops

    mix → what each gang is        churn → a cluster in which gangs come and go        census → what a program remembers
    memory → what the kernel says  engine, plane → the two measurements
"""
