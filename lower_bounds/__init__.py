"""What no schedule of a network can beat, worked out without looking at one; for tests and benches.

`byte_chains` says which bytes depend on which, `cycles` what that and the timing rules ask of every schedule, `rows`
what schedules in whole rows take. Reads networks as the planner gets them; knows nothing of how the planner searches.
"""
