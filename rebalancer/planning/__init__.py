"""The plan: the proved minimum of evictions for each component, the next safe step, and why the rest waits.

`planner` makes the plan and `decision` decides about one component, with the methods that `methods` lists. `scope`
answers what belongs together, what is required, which pods may move and what the budgets allow. `formulation` turns a
component into a problem: `single_class` (counting) or `multi_class` (an integer program). `steps` searches for
evictions; `diagnosis` explains why none are found.
"""
