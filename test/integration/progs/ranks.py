"""A barrier of so many ranks, again and again, by files below W."""
import itertools, os, time

def barrier(name, ranks):
    steps = itertools.count()

    def sync():
        step = f"{os.environ['W']}/{name}.{next(steps)}"
        open(f"{step}.{os.environ['PMIX_RANK']}", "x").close()
        while not all(os.path.exists(f"{step}.{r}") for r in range(ranks)):
            time.sleep(0.0005)

    return sync
