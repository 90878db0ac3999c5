"""The tests mirror `scheduler/`, one folder a room; `plane/` is the real control plane that some of them stand on."""
