"""The unit of work of stores on a SQL database: statements, plans and transactions, without a driver."""
