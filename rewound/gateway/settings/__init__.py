"""The settings of a server as one frozen value, and the checks that refuse what it cannot serve."""
