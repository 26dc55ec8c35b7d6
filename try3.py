import sys
from pathlib import Path
from kcheck.grading.models import _problem, model_problem
f,s=_problem(Path(sys.argv[1]).absolute())
print(s.dims); print([str(c.text) for c in s.constraints]); 
for n,i in s.inputs.items(): print(n,[e.text for e in i.shape],[str(v) for v in i.values])
for n,i in s.outputs.items(): print(n,[e.text for e in i.shape])
print([dict(e.dims) for e in s.examples])
from kcheck.cases import plan, materialize
from kcheck.oracle import Expected
import time
for c in plan(s,count=5,master=0):
    t=time.time(); a=materialize(s,c); e=Expected(s,a).truth(); print(c.id, time.time()-t)
