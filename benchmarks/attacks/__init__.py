"""What other clients notice while one attacks the server: `python -m benchmarks.attacks`."""
