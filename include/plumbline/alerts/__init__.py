"""Alerts: findings to the log, to Slack and to channels of other packages."""

from plumbline.alerts.channel import AlertChannel, ChannelError, Post
from plumbline.alerts.delivery import Alert, Delivery, deliver
from plumbline.alerts.message import AlertContext, Message, render
from plumbline.alerts.slack.connection import CONNECTION, Slack, connect
