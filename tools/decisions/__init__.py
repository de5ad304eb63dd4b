"""Plans of thousands of drawn states, recorded and compared, to show that a change alters no decision."""
