"""Plumbline's plugin where its sources are on the path and the package is not installed. An installed package brings the plugin itself, by its
entry point `airflow.plugins`, and Airflow takes one plugin of a name."""

from plumbline.plugin import PlumblinePlugin as PlumblinePlugin
