-- Run once by the PostgreSQL image, when its volume is new. A role for each database, so that Airflow's password gives
-- no access to the archive, nor the reverse. The pages read the archive as a third role without write access (granted by init).
-- The passwords come from the container's environment.
\set ON_ERROR_STOP on
\getenv airflow_password AIRFLOW_DB_PASSWORD
\getenv archive_password ARCHIVE_DB_PASSWORD
\getenv reader_password READER_DB_PASSWORD

CREATE ROLE airflow LOGIN PASSWORD :'airflow_password';
CREATE ROLE plumbline LOGIN PASSWORD :'archive_password';
CREATE ROLE plumbline_reader LOGIN PASSWORD :'reader_password';
ALTER ROLE plumbline_reader SET default_transaction_read_only = on;
CREATE DATABASE airflow OWNER airflow;
CREATE DATABASE plumbline OWNER plumbline;

-- By default PostgreSQL lets every role connect to every database.
REVOKE ALL ON DATABASE airflow, plumbline, postgres, template1 FROM PUBLIC;
GRANT CONNECT ON DATABASE plumbline TO plumbline_reader;
