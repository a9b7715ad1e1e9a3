"""A warm Python: started before the snapshot, copied by fork, each copy used for one execution.

`forker` imports what the template's recipe names and forks standby copies when the agent asks.
`standby` turns a copy into the process of one execution, told by what `request` decodes. `program`
runs its source as `python3 -c` would and ends as it would, with the help of `native`. `hidden_modules`
hides what was imported until the program imports it. `frames` hides the frames below the program's own.

Nothing here may be seen by the program, and nothing of one execution may be seen by another: a
standby copy reads its request itself, so the forker never holds any of it.
"""
