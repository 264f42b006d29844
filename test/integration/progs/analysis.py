"""analysis.py DIR: the other side of mpi_sim: writes parameters, sums what the steps bring, writes the result."""
import sys

directory = sys.argv[1]
with open(f"{directory}/parameters", "w") as out:
    out.write("7\n")
total = 0
for step in range(3):
    with open(f"{directory}/step.{step}") as step_file:
        total += int(step_file.read())
with open(f"{directory}/result", "w") as out:
    out.write(f"{total}\n")
print(f"analysis: {total}")
