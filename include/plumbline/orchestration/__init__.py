"""The thin layer between Airflow and the other rooms: what DAG files are wired from, and a local Airflow that a command owns.

| module | what it does |
|---|---|
| `tasks`, `report_tasks`, `decision_tasks`, `upkeep_tasks` | the `@task`s: each hands over to a step and no more |
| `defaults`, `schedules`, `form`, `assets` | settings, slots, on-demand forms and events that DAG files share |
| `asked`, `steps`, `review`, `reporting`, `comparing`, `direct` | what tasks and commands do, as plain code without Airflow |
| `against_baseline`, `past`, `silence` | what a campaign is held against, and what is missed; the review and the report ask the same |
| `asking`, `deciding` | what a person is asked about a finding, and what becomes of the answer |
| `airflow_server`, `airflow_settings`, `airflow_supervisor`, `leftovers` | start a local Airflow and leave nothing behind, however it ends |
| `airflow_client`, `pools`, `unpaused` | Airflow's REST API, and what is set through it |
| `server_init`, `server_bucket` | what the team server (docker-compose.yaml) needs before it starts |
| `campaign`, `campaign_state` | one campaign through a running Airflow, watched live |

Nothing is imported here: DAG files import this package on every parse.
"""
