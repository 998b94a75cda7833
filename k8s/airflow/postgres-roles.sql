-- Run once by the PostgreSQL image, when its volume is new. Two roles and two databases: whoever gets hold of Airflow's password
-- cannot touch the measurements, and the other way round. The passwords come from the container's environment.
\set ON_ERROR_STOP on
\getenv airflow_password AIRFLOW_DB_PASSWORD
\getenv archive_password ARCHIVE_DB_PASSWORD

CREATE ROLE airflow LOGIN PASSWORD :'airflow_password';
CREATE ROLE plumbline LOGIN PASSWORD :'archive_password';
CREATE DATABASE airflow OWNER airflow;
CREATE DATABASE plumbline OWNER plumbline;

-- PostgreSQL lets every role connect to every database unless told otherwise.
REVOKE ALL ON DATABASE airflow, plumbline, postgres, template1 FROM PUBLIC;
