"""The settings of a server, as one frozen value, with the checks that refuse combinations it cannot serve."""
