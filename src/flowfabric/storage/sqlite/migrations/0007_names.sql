-- Columns and tables are named by words.

alter table execution rename column k to execution_key;
alter table payload rename column k to execution_key;
alter table result rename column k to execution_key;
alter table attempt rename column k to execution_key;
alter table history rename column k to execution_key;
alter table tag rename column k to execution_key;
alter table suspension rename column k to execution_key;
alter table waitpoint rename column k to execution_key;
alter table signal rename column k to execution_key;
alter table stream rename column k to execution_key;
alter table frame rename column k to execution_key;
alter table summary rename column k to execution_key;
alter table step rename column k to execution_key;

alter table execution rename column rec to record;
alter table result rename column rec to record;
alter table attempt rename column rec to record;
alter table history rename column rec to record;
alter table suspension rename column rec to record;
alter table waitpoint rename column rec to record;
alter table signal rename column rec to record;
alter table stream rename column rec to record;
alter table frame rename column rec to record;
alter table summary rename column rec to record;
alter table step rename column rec to record;
alter table memo rename column rec to record;
alter table lane rename column rec to record;
alter table worker rename column rec to record;
alter table keyring rename column rec to record;
alter table access rename column rec to record;
alter table past rename column rec to record;
alter table kind rename column rec to record;
alter table kind_names rename column rec to record;
alter table kind_namespaces rename column rec to record;

alter table history rename column pos to position;
alter table waitpoint rename column pos to position;
alter table past rename column pos to position;
alter table attempt rename column i to attempt;
alter table signal rename column n to number;
alter table frame rename column n to number;
alter table tally rename column n to executions;
alter table total rename column n to executions;

alter table access rename to token;
alter table baton rename to leader_lease;
