"""How the parts are wired and started: settings, DAG, command line, data source."""
