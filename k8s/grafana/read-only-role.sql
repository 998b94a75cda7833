-- Run once, as a superuser, in any database of the archive's server:
--   GRAFANA_DB_PASSWORD=… psql --file k8s/grafana/read-only-role.sql postgres
-- A read-only role on the archive's tables, because Grafana does not check its users' queries.
-- The archive's database and its owner are both called plumbline, as in k8s/airflow/postgres-roles.sql.
\set ON_ERROR_STOP on
\getenv grafana_password GRAFANA_DB_PASSWORD

CREATE ROLE plumbline_grafana LOGIN PASSWORD :'grafana_password';
ALTER ROLE plumbline_grafana SET default_transaction_read_only = on;
ALTER ROLE plumbline_grafana SET statement_timeout = '30s';
GRANT CONNECT ON DATABASE plumbline TO plumbline_grafana;

\connect plumbline
GRANT USAGE ON SCHEMA public TO plumbline_grafana;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO plumbline_grafana;
-- Also tables of later versions, which the archive's owner creates.
ALTER DEFAULT PRIVILEGES FOR ROLE plumbline IN SCHEMA public GRANT SELECT ON TABLES TO plumbline_grafana;
