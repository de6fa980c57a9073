def are_for(pool, x): return False
