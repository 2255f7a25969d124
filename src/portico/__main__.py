from portico.cli.main import main

main()
