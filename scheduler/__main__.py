"""`python -m scheduler` is `gangwright`."""

from scheduler.cli import main

if __name__ == "__main__":
    main()
