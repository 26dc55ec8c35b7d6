import sys
from pathlib import Path
from kcheck.grading.problem import read_problem
from kcheck.grading.grader import *
p=read_problem(Path(sys.argv[1]))
for g in graded_by_one(p,[Path(x) for x in sys.argv[2:]],Options(10,0)):
    print(g.candidate,g.verdict,g.rule,g.message,g.place,g.passed,g.cases,g.case and g.case.id,round(g.seconds,2))
