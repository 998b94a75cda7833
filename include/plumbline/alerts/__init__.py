"""Alerts: findings to the log, and to Slack if a connection exists."""

from plumbline.alerts.delivery import Alert, Delivery, IncidentStore, deliver
from plumbline.alerts.message import AlertContext, Message, render
from plumbline.alerts.slack.connection import CONNECTION, Slack, connect

__all__ = ["CONNECTION", "Alert", "AlertContext", "Delivery", "IncidentStore", "Message", "Slack", "connect", "deliver", "render"]
