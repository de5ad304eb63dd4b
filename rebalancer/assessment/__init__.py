"""What is violated: every constraint of every workload, counted exactly as kube-scheduler would count it.

`groups` puts together what is counted together, `judgement` judges it. What could be done about it is planning's.
"""
