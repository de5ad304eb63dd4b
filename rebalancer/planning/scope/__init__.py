"""What a repair may touch: components, requirements, movable pods, the nodes' capacity and topology, budgets."""
