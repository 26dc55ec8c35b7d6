import sys, time
from pathlib import Path
from dataclasses import replace
from kcheck.specfile.build import load_spec, changed_spec
from kcheck.model import Span
from kcheck.cases import plan, materialize
from kcheck.grading.isolated import *
from kcheck.oracle import judge
c=Path('/tmp/g/cands/a.py')
s=changed_spec(Path('specs/softmax.yaml'),'',{'kernel':f'{c}:softmax'},Span('cand'),[c])
t=time.time()
with Server() as srv:
    print('server',time.time()-t)
    for _ in range(2):
        t=time.time()
        bare=replace(s,judged=False,inputs={k:v for k,v in s.inputs.items()})
        with CandidateDevice(srv, Order(bare), [str(c)], Isolation(on='off' not in sys.argv)) as d:
            print(d.load(), time.time()-t)
            for case in plan(s,count=5,master=1):
                t=time.time()
                a=materialize(s,case)
                o=d.run(s,a,timeout=10,instrument=d.instruments)
                print(case.id,o.findings[:2],o.checked, time.time()-t)
                if o.outputs: print(judge(s,a,o).status)
            o=d.run(s,a,timeout=10,silent=True)
            print(o.findings[:2], o.outputs)
            print(d.patched())
