"""Which trained networks are right at every length: tables of what `certify` proves of them, and what it refutes."""
