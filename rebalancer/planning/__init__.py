"""Exact minimum, victims, steps that are safe at every moment, and the proof.

`arrangement` says where the pods of one group stand, `distance` how many evictions it is from right, `reach` which
evictions the scheduler is forced to repay, `budgets` how many may be missing, `eligibility` who may move at all;
`planner` puts them together over a snapshot.
"""
