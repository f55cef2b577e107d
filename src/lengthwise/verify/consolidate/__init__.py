"""Networks taught the algebra of a machine, until their proof goes through."""
