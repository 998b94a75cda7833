"""Where each kind of Airflow reads DAG files, declarations, packages and variables: what `plumbline airflow init` writes and prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """`dags`, `config`: folders below the given one, where the Airflow has it as `root`. `package`, `variables`: where people name packages and
    set variables. `notes`: what else is particular; with `untried`, from its documentation alone."""

    title: str
    root: str
    dags: str
    config: str
    package: str
    variables: str
    notes: tuple[str, ...] = ()
    untried: bool = False

    @property
    def config_there(self) -> str:
        """The folder of the declarations in the Airflow's containers."""
        return f"{self.root}/{self.config}"


_S3_STORE = "s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject on the bucket of PLUMBLINE_RESULTS_URL"

LAYOUTS = {
    "official": Layout(
        title="the official image or a plain installation",
        root="/opt/airflow",
        dags="dags/plumbline",
        config="plumbline",
        package='a Dockerfile: FROM apache/airflow:… and RUN pip install "plumbline[airflow]=={version}" (plain: the same pip install)',
        variables="the environment of every service; a plain installation replaces /opt/airflow by its AIRFLOW_HOME",
        notes=("every service mounts the folders dags and plumbline at the same place",),
    ),
    "helm": Layout(
        title="the official Helm chart with git-sync",
        root="/opt/airflow/dags/repo",
        dags="dags/plumbline",
        config="plumbline",
        package="an image of yours over apache/airflow, in images.airflow.repository and images.airflow.tag",
        variables="`env:` of the chart's values, which all components get",
        notes=(
            "dags.gitSync.subPath: dags; commit both folders to the repository that git-sync reads",
            "git-sync does not run beside the API server, whose pages read the declarations: put the folder plumbline into the image, or mount it "
            "there from a ConfigMap (apiServer.extraVolumes), and set PLUMBLINE_CONFIG to that place for it",
        ),
    ),
    "astronomer": Layout(
        title="an Astronomer project",
        root="/usr/local/airflow",
        dags="dags/plumbline",
        config="include/plumbline",
        package="requirements.txt of the project: plumbline[airflow]=={version}",
        variables=".env on your machine, and the deployment's environment variables",
        notes=("`astro deploy --dags` deploys DAG files alone: use `astro deploy` after a change of the declarations",),
    ),
    "mwaa": Layout(
        title="Amazon MWAA",
        root="/usr/local/airflow",
        dags="dags/plumbline",
        config="dags/plumbline-config",
        package="requirements.txt in the environment's bucket: plumbline[airflow,s3]=={version}, below the --constraint line of your Airflow",
        variables="`export NAME=VALUE` lines of the startup script, which runs in workers, schedulers and the web server",
        notes=(
            "the declarations lie below dags because nothing else of the bucket reaches every component",
            f"the execution role needs {_S3_STORE}; and to read its clusters' credentials, secretsmanager:GetSecretValue on the prefix of your secrets "
            "backend",
            "the environment's security group must reach the database of the archive and the API servers of the clusters",
        ),
        untried=True,
    ),
    "composer": Layout(
        title="Google Cloud Composer",
        root="/home/airflow/gcs",
        dags="dags/plumbline",
        config="data/plumbline",
        package="PyPI packages of the environment: plumbline[airflow,gcs]=={version}",
        variables="environment variables of the environment",
        notes=(
            "copy both folders into the environment's bucket: gcloud storage cp -r FOLDER/dags FOLDER/data gs://BUCKET/",
            "the web server may not see data/: if the pages report no declarations, put them into plugins/plumbline, which it does see, and set "
            "PLUMBLINE_CONFIG to /home/airflow/gcs/plugins/plumbline",
            "the environment's service account needs roles/storage.objectUser on the bucket of PLUMBLINE_RESULTS_URL and, for GKE clusters, "
            "roles/container.developer",
        ),
        untried=True,
    ),
}
"""By the value of `--for`."""
